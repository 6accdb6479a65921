// A view: fills its place, and gives what ends it.

import type { About } from "./api";

export interface Place {
  job: string;
  about: About;
  query: URLSearchParams;
  // Says in the head of the page whether the server is heard.
  connected: (yes: boolean) => void;
  // The address becomes this one, without a new view.
  go: (query: Record<string, string>) => void;
}

export type View = (root: HTMLElement, place: Place) => (() => void) | void;

export function address(job: string, view = "", query: Record<string, string> = {}): string {
  const told = new URLSearchParams(query).toString();
  return `#/jobs/${encodeURIComponent(job)}${view && `/${view}`}${told && `?${told}`}`;
}
