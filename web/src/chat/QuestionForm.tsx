// A form for a run's question to the user, shown where the run asked it.
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { client, type Plan, type Question } from '../stream';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';

/** What became of a question that was not answered. */
const UNANSWERED = { answered: t('answered'), expired: t('expired'), cancelled: t('cancelled') };
/** What was decided about a call or a plan. */
const DECISIONS: Record<string, string> = { approve: t('approve'), edit: t('edit'), refuse: t('refuse') };

/** `plan`: the one that it asks about, whose steps are shown beside it. */
export function QuestionForm({ question, plan }: { question: Question; plan?: Plan }) {
  const [words, setWords] = useState('');
  const [chosen, setChosen] = useState<string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [isSent, setSent] = useState(false);
  const asked = plan ? (question.question.split('\n')[0] ?? '') : question.question;
  if (question.status !== 'pending') {
    return (
      <p className="notice" dir="auto">
        {asked}{' '}
        <b>
          {question.status === 'answered' && question.answer !== undefined
            ? answerText(question.answer)
            : UNANSWERED[question.status]}
        </b>
      </p>
    );
  }
  // The client that brought the tool along answers, not this page.
  if (question.interactionType === 'client_tool')
    return (
      <p className="notice" dir="auto">
        {asked}
      </p>
    );
  const answer = async (value: unknown, input?: unknown) => {
    setSent(true);
    try {
      await client.answer(question.questionId, value, input);
    } catch (refusal) {
      setError(refusal);
      setSent(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void answer(question.interactionType === 'multi_select' ? chosen : words);
  };
  return (
    <form className="question" onSubmit={submit} aria-label={t('The agent asks')}>
      <p dir="auto">
        <Asked text={asked} />
      </p>
      <fieldset disabled={isSent}>
        <legend className="hidden">{t('Answers')}</legend>
        {question.interactionType === 'confirm' ? (
          <Confirm question={question} plan={plan} onAnswer={(decision, input) => void answer(decision, input)} />
        ) : question.interactionType === 'text' ? (
          <>
            <input
              value={words}
              onChange={(event) => setWords(event.target.value)}
              aria-label={t('Your answer')}
              required
            />
            <Submit />
            {/* A field of a tool's form can be skipped, or its form declined. */}
            {question.options.map((option) => (
              <button key={option.value} type="button" onClick={() => void answer(option.value)}>
                {option.label}
              </button>
            ))}
          </>
        ) : question.interactionType === 'multi_select' ? (
          <>
            {question.options.map((option) => (
              <label key={option.value}>
                <input
                  type="checkbox"
                  checked={chosen.includes(option.value)}
                  onChange={() =>
                    setChosen((before) =>
                      before.includes(option.value)
                        ? before.filter((value) => value !== option.value)
                        : [...before, option.value],
                    )
                  }
                />{' '}
                <bdi>{option.label}</bdi>
              </label>
            ))}
            <Submit />
          </>
        ) : (
          question.options.map((option) => (
            <button
              key={option.value}
              type="button"
              title={option.description ?? undefined}
              onClick={() => void answer(option.value)}
            >
              {option.label}
            </button>
          ))
        )}
      </fieldset>
      {error ? <ErrorNote error={error} /> : null}
    </form>
  );
}

function Submit() {
  return (
    <button type="submit" className="primary">
      {/* Not the noun, which has another translation. */}
      {t('{kind, select, verb {Answer} other {Answer}}', { kind: 'verb' })}
    </button>
  );
}

/** The page on which a user connects an account, wherever the server is reached. */
const ACCOUNT_PAGE = /(?:https?:\/\/[^\s/]+)?\/mcp\/connect\?server=([0-9a-f-]{36})/;

/** The text of a question. No link in it but that to our own page can be followed: the text may be a tool's. */
function Asked({ text }: { text: string }) {
  const found = ACCOUNT_PAGE.exec(text);
  if (!found) return text;
  const end = found.index + found[0].length;
  return (
    <>
      {text.slice(0, found.index)}
      <a href={`/mcp/connect?server=${found[1]}`} target="_blank" rel="noopener">
        {found[0]}
      </a>
      {text.slice(end)}
    </>
  );
}

/** Whether a call may act, or a plan be carried out: as it is, with other arguments or steps, or not at all. */
function Confirm({
  question,
  plan,
  onAnswer,
}: {
  question: Question;
  plan: Plan | undefined;
  onAnswer: (decision: string, input?: unknown) => void;
}) {
  const me = useMe();
  const [edited, setEdited] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  // The question shows a readable part of the arguments; the call itself has all of them.
  const edit = async () => {
    if (plan) return setEdited(JSON.stringify(plan.steps.map(editable), null, 2));
    try {
      const { runId, toolCallId } = await api<Schemas['QuestionBody']>(`/api/questions/${question.questionId}`);
      const call = await api<{ input: unknown }>(
        `/api/projects/${me.projectId}/agent-runs/${runId}/tool-calls/${toolCallId}`,
      );
      setEdited(JSON.stringify(call.input, null, 2));
    } catch (refusal) {
      setError(refusal);
    }
  };
  const approve = async () => {
    let read: unknown;
    try {
      read = JSON.parse(edited ?? '');
    } catch (broken) {
      const reason = broken instanceof Error ? broken.message : '';
      return setError(
        new Error(
          plan
            ? t('The steps are not valid JSON: {reason}', { reason })
            : t('The arguments are not valid JSON: {reason}', { reason }),
        ),
      );
    }
    setError(null);
    if (!plan) return onAnswer('edit', read);
    try {
      // Steps within the answer would end the plan if there is anything wrong with them; the draft itself refuses them, and waits.
      await api(`/api/projects/${me.projectId}/plans/${plan.id}`, {
        method: 'PATCH',
        body: { version: plan.version, steps: read },
      });
      onAnswer('approve');
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <>
      {edited === null ? (
        <>
          <button type="button" className="primary" onClick={() => onAnswer('approve')}>
            {t('Approve')}
          </button>
          <button type="button" onClick={() => void edit()}>
            {plan ? t('Edit') : t('Edit arguments')}
          </button>
        </>
      ) : (
        <>
          <textarea
            aria-label={plan ? t('Plan steps (JSON)') : t('Tool call arguments (JSON)')}
            rows={Math.min(16, edited.split('\n').length + 1)}
            spellCheck={false}
            autoFocus
            value={edited}
            onChange={(event) => setEdited(event.target.value)}
          />
          <button type="button" className="primary" onClick={() => void approve()}>
            {t('Approve with changes')}
          </button>
          <button type="button" onClick={() => setEdited(null)}>
            {t('Discard changes')}
          </button>
        </>
      )}
      <button type="button" onClick={() => onAnswer('refuse')}>
        {plan ? t('Reject') : t('Refuse')}
      </button>
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}

/** The fields of a step that the user can edit. */
function editable({ stepNumber, type, description, executorRequired, tools, dependsOn }: Plan['steps'][number]) {
  return { stepNumber, type, description, executorRequired, tools, dependsOn };
}

function answerText(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  if (answer && typeof answer === 'object' && 'decision' in answer) {
    const decision = String(answer.decision);
    return DECISIONS[decision] ?? decision;
  }
  return JSON.stringify(answer);
}
