// Marks as they are said and drawn.

import type { Mark } from "./api";
import { milliseconds } from "./format";

export const LABELS: Record<Mark["kind"], string> = {
  coordinator: "coordinator",
  lost: "worker lost",
  start: "started",
  recovery: "recovery",
  code: "other code",
  end: "end",
  audit: "audit",
  drill: "drill",
};

export function moment(mark: Mark): number {
  return Date.parse(mark.at);
}

export function sentence(mark: Mark): string {
  switch (mark.kind) {
    case "lost":
      return `${mark.worker ?? ""} is gone: ${mark.text}`;
    case "start":
      return `attempt ${mark.attempt ?? 0} runs`;
    case "recovery":
    case "code":
      return `attempt ${mark.attempt ?? 0}: ${mark.text}`;
    default:
      return mark.text;
  }
}

export function steps(mark: Mark): string {
  const found = Object.entries(mark.steps_ms ?? {});
  return found.length ? `${milliseconds(mark.duration_ms)}: ${found.map(([name, took]) => `${name} ${milliseconds(took)}`).join(", ")}` : "";
}
