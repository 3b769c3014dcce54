/** Calls the function of a tool with arguments of a call, and makes an outcome of how it ends. */
import type { CallContext } from './callContext.js';
import { CallCancelledError, RetryCall, ToolFailure } from './errors.js';
import type { Logger } from './logger.js';
import { failed, type Outcome, ofError, ofResult } from './outcomes.js';
import { MismatchError } from './schemas.js';
import type { Tool } from './tool.js';

/** A tool, whatever its types are. */
export type AnyTool = Tool<never, unknown>;

/** Returns how the function has ended. Never rejects. */
export async function callTool(tool: AnyTool, given: unknown, context: CallContext, logger: Logger): Promise<Outcome> {
  let input: unknown;
  try {
    input = await tool.input.read(given);
  } catch (error) {
    if (error instanceof MismatchError)
      return failed(`The arguments do not match the schema of ${tool.name}: ${error.message}`);
    return thrown(tool, error, context, logger);
  }
  let result: unknown;
  try {
    result = await tool.run(input as never, context);
  } catch (error) {
    return thrown(tool, error, context, logger);
  }
  try {
    return ofResult(tool.output ? await tool.output.read(result) : result);
  } catch (error) {
    const why = error instanceof MismatchError ? error.message : ofError(error).error;
    return failed(`The tool has completed, but its output does not match its schema: ${why}`);
  }
}

function thrown(tool: AnyTool, error: unknown, context: CallContext, logger: Logger): Outcome {
  if (context.signal.aborted && isOfAbort(error, context.signal.reason)) return { kind: 'interrupted' };
  const outcome = ofError(error);
  const what = `tool ${tool.name} has failed: ${outcome.error}`;
  if (error instanceof ToolFailure || error instanceof RetryCall) logger.info(what);
  else logger.error(what, error);
  return outcome;
}

/** Whether a function has thrown this because its signal was aborted. Some libraries throw errors of their own then. */
function isOfAbort(error: unknown, reason: unknown): boolean {
  if (error === reason || error instanceof CallCancelledError) return true;
  return error instanceof Error && (error.name === 'AbortError' || error.cause === reason);
}
