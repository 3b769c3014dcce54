// The form of a question, on demand: most answers ask none.
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';

export const LazyQuestionForm = lazyPart(async () => (await import('./QuestionForm')).QuestionForm, t('the question'));
