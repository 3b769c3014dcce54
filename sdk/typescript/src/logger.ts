/** Where a worker writes what happens to it. */

/** `console`, or the logger of your program. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  /** `cause`: the error of a tool, with its stack. */
  error(message: string, cause?: unknown): void;
}

/** Everything goes to the standard error output. */
export const CONSOLE: Logger = {
  info: (message) => console.error(`rejoin: ${message}`),
  warn: (message) => console.error(`rejoin: ${message}`),
  error: (message, ...cause) => console.error(`rejoin: ${message}`, ...cause),
};
