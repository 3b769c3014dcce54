// The tokens and the cost of a run or of a model call.
import { Fact } from '../ui/Facts';
import { t } from '../ui/language';
import { cacheHits, count, dollars, type Usage } from './usage';

/** Within `Facts`. */
export function UsageFacts({ usage }: { usage: Usage }) {
  return (
    <>
      <Fact name={t('Input tokens')}>{count(usage.inputTokens)}</Fact>
      <Fact name={t('Cache hits')}>{cacheHits(usage)}</Fact>
      <Fact name={t('Output tokens')}>{count(usage.outputTokens)}</Fact>
      {usage.reasoningTokens ? <Fact name={t('Reasoning tokens')}>{count(usage.reasoningTokens)}</Fact> : null}
      <Fact name={t('Cost')}>{dollars(usage.costUsd)}</Fact>
    </>
  );
}
