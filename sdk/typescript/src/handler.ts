/** Calls the function of a tool with arguments of a call, and makes an outcome of how it ends. */
import type { CallContext } from './callContext.js';
import { RetryCall, ToolFailure } from './errors.js';
import type { Logger } from './logger.js';
import { failed, isOfAbort, type Outcome, ofError, ofResult } from './outcomes.js';
import { MismatchError } from './schemas.js';
import { Suspend } from './steps.js';
import type { Tool } from './tool.js';

/** A tool, whatever its types are. */
export type AnyTool = Tool<never, unknown>;

/** Returns how the function has ended. Never rejects. A function that waits has ended so, whatever it has returned or thrown. */
export async function callTool(tool: AnyTool, given: unknown, context: CallContext, logger: Logger): Promise<Outcome> {
  const outcome = await call(tool, given, context, logger);
  const suspension = await context.journal.suspended();
  return suspension ? { kind: 'suspended', steps: suspension.steps } : outcome;
}

async function call(tool: AnyTool, given: unknown, context: CallContext, logger: Logger): Promise<Outcome> {
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
  if (isOfAbort(error, context.signal)) return { kind: 'interrupted' };
  if (context.journal.isSuspended) {
    if (!(error instanceof Suspend))
      logger.warn(`tool ${tool.name} waits; what it has thrown then is ignored: ${ofError(error).error}`);
    return { kind: 'interrupted' };
  }
  const outcome = ofError(error);
  const what = `tool ${tool.name} has failed: ${outcome.error}`;
  if (error instanceof ToolFailure || error instanceof RetryCall) logger.info(what);
  else logger.error(what, error);
  return outcome;
}
