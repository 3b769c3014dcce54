/**
 * `@rejoin/client`: chats with agents that never lose or repeat a word.
 *
 * - `client`        what a program calls
 * - `http`          requests, and messages that are sent until they are stored
 * - `log`           a connection that is kept, with its cursor
 * - `sse`           bytes become frames
 * - `transcript`    events become what a chat shows; `turn` and `text` are its parts, `view` its types
 * - `plan`, `about` plans and operations of a turn; what a conversation is about
 * - `wire`          the types of what is sent
 * - `connectionSlots` limits the connections of a browser's tabs
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
