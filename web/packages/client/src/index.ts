/**
 * `@rejoin/client`: chats with agents that never lose or repeat a word.
 *
 * - `client`           the public API
 * - `http`             requests, and retries of messages until they are stored
 * - `log`              a persistent connection with its cursor
 * - `sse`              parses bytes into frames
 * - `transcript`       folds events into a chat's view; `fold`, `snapshot`, `turn` and `text` are its parts, `view` its types
 * - `plan`, `about`    plans and operations of a turn; the context of a conversation
 * - `wire`             the types of the wire
 * - `connectionSlots`  limits the streams of a browser's tabs
 * - `backoff`, `error`, `surroundings`
 */
export type {
  Client,
  ClientOptions,
  Follower,
  FollowOptions,
  PageOptions,
  PrewarmOptions,
  SendOptions,
} from './client.js';
export { createClient } from './client.js';
export { RejoinError } from './error.js';
export type { FollowStatus, Start } from './log.js';
export type { Frame } from './sse.js';
export { SseParser } from './sse.js';
export { Transcript } from './transcript.js';
export type * from './view.js';
export type * from './wire.js';
