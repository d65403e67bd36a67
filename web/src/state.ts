/** The newest answer, which several views show. */

import type { Answer } from "./replies";

export interface Asked {
  question: string;
  workflow: string;
  answer: Answer;
}

type Listener = (asked: Asked) => void;

const listeners: Listener[] = [];
let newest: Asked | null = null;

export function lastAsked(): Asked | null {
  return newest;
}

export function onAnswer(listener: Listener): void {
  listeners.push(listener);
}

export function setAnswer(asked: Asked): void {
  newest = asked;
  for (const listener of listeners) listener(asked);
}
