// A chat of the AI SDK without a page around it.
import { AbstractChat } from "ai";

export class Chat extends AbstractChat {
  constructor(init) {
    const state = { status: "ready", error: undefined, messages: [] };
    state.pushMessage = (message) => (state.messages = [...state.messages, message]);
    state.popMessage = () => (state.messages = state.messages.slice(0, -1));
    state.replaceMessage = (at, message) => (state.messages = state.messages.with(at, message));
    state.snapshot = (value) => structuredClone(value);
    super({ ...init, state });
  }
}
