// Marks as they are said and drawn.

import type { Audited, Drilled, Mark, Ran } from "./api";
import { count, milliseconds } from "./format";

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

// A duration goes to the replay: what that took is told behind it, once it is known.
export function steps({ duration_ms, steps_ms }: Pick<Mark, "duration_ms" | "steps_ms">): string {
  const { replay, ...others } = steps_ms ?? {};
  const told = Object.entries(others).map(([name, took]) => `${name} ${milliseconds(took)}`).join(", ");
  const all = duration_ms || told ? [milliseconds(duration_ms), told].filter(Boolean).join(": ") : "";
  return replay === undefined ? all : `${all}, then replay ${milliseconds(replay)}`;
}

// The marks of the last drill, a mark a fault, and of the last audit.
export function verdictsOf(drilled: Ran<Drilled>, audited: Ran<Audited>): Mark[] {
  const found: Mark[] = [];
  const drill = drilled.state === "done" && drilled.answer?.phase ? drilled.answer : null;
  for (const fault of drill?.faults ?? []) found.push({ at: fault.time, kind: "drill", text: `${fault.victim} was struck: whole again after ${milliseconds(fault.recoveryMs)}, without output for ${milliseconds(fault.outputGapMs)}` });
  if (drill) found.push({ at: new Date(drilled.ended / 1000).toISOString(), kind: "drill", text: `${drill.phase}: ${drill.message ?? ""}` });
  const verdict = audited.state === "done" ? audited.answer?.verdict : undefined;
  if (verdict) found.push({ at: new Date(audited.ended / 1000).toISOString(), kind: "audit", text: `${audited.answer?.kept ? "clean" : "differs"}: ${count(verdict.delivered)} results, ${count(verdict.lost)} lost, ${count(verdict.doubled)} doubled, ${count(verdict.reordered)} reordered` });
  return found;
}
