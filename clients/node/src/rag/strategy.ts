/** The choice of the text that is embedded for a user's message. */

import { type Logger, NO_LOGGER } from "./logger.js";

export type Strategy = "first message (raw query)" | "follow-up (contextualized topic)";

/** The text to embed, and why it was chosen. */
export interface QueryChoice {
  text: string;
  strategy: Strategy;
}

/**
 * Choose the text to embed. The strategy is logged, never the text.
 *
 * A first message is complete in itself. A follow-up ("does it work with that, too?") means nothing without the messages
 * before it, so the topic that the conversation has accumulated is used in its place.
 *
 * @param userMessage the user's message.
 * @param currentTopic the accumulated topic; undefined, empty or blank when there is none yet.
 * @returns the unchanged message, or the topic with its white space normalised.
 */
export function chooseQuery(
  userMessage: string,
  currentTopic?: string | null,
  { logger = NO_LOGGER }: { logger?: Logger } = {},
): QueryChoice {
  const topic = (currentTopic ?? "").trim().split(/\s+/).join(" ");
  const choice: QueryChoice = topic
    ? { text: topic, strategy: "follow-up (contextualized topic)" }
    : { text: userMessage, strategy: "first message (raw query)" };
  logger.info(`Query strategy: ${choice.strategy}`);
  return choice;
}
