// The error codes of runs that the project or its operator can resolve, with what to do. All others are failures of the system or of a provider.
import { t } from '../ui/language';

const REPLACE_KEY = t('Set a valid key of the model’s provider, then retry.');
const CHOOSE_MODEL = t('Choose another model in the agent’s definition.');

const ADVICE: Record<string, string> = {
  model_key_missing: REPLACE_KEY,
  model_key_rejected: REPLACE_KEY,
  model_quota_exhausted: t('Add credit to the provider’s account, or set fallback models.'),
  model_unknown: CHOOSE_MODEL,
  model_misconfigured: t('Check the settings of the model’s provider.'),
  model_rejected: t('Check the model and the parameters in the agent’s definition.'),
  model_context_overflow: t('Start a new chat, or choose a model with a larger context.'),
  model_refused: t('Rephrase the message, or choose another model.'),
  model_cannot_read_file: CHOOSE_MODEL,
  model_files_too_large: t('Attach smaller files.'),
  agent_definition_gone: t('The agent was deleted. Choose another agent.'),
};

/** What a user can do about a failure; undefined: it is not a matter of settings or input. */
export function adviceFor(code: string | null | undefined): string | undefined {
  return code ? ADVICE[code] : undefined;
}
