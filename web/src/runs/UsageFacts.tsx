// The tokens and the cost of a run or of a model call.
import { Fact } from '../ui/Facts';
import { cacheHits, count, dollars, type Usage } from './usage';

/** Within `Facts`. */
export function UsageFacts({ usage }: { usage: Usage }) {
  return (
    <>
      <Fact name="Input tokens">{count(usage.inputTokens)}</Fact>
      <Fact name="Cache hits">{cacheHits(usage)}</Fact>
      <Fact name="Output tokens">{count(usage.outputTokens)}</Fact>
      {usage.reasoningTokens ? <Fact name="Reasoning tokens">{count(usage.reasoningTokens)}</Fact> : null}
      <Fact name="Cost">{dollars(usage.costUsd)}</Fact>
    </>
  );
}
