// The form of a question, on demand: most answers ask none.
import { lazyPart } from '../ui/lazyView';

export const LazyQuestionForm = lazyPart(async () => (await import('./QuestionForm')).QuestionForm, 'the question');
