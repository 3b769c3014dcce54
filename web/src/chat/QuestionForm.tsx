// What a run asks a person, answered where it is asked.
import { type FormEvent, useState } from 'react';
import { client, type Question } from '../stream';
import { ErrorNote } from '../ui/parts';

export function QuestionForm({ question }: { question: Question }) {
  const [words, setWords] = useState('');
  const [chosen, setChosen] = useState<string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [isSent, setSent] = useState(false);
  if (question.status !== 'pending') {
    return (
      <p className="notice">
        {question.question} <b>{question.status === 'answered' ? told(question.answer) : question.status}</b>
      </p>
    );
  }
  const answer = async (value: unknown) => {
    setSent(true);
    try {
      await client.answer(question.questionId, value);
    } catch (refusal) {
      setError(refusal);
      setSent(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void answer(question.interactionType === 'multi_select' ? chosen : words);
  };
  const options =
    question.interactionType === 'confirm'
      ? [
          { label: 'Approve', value: 'approve' },
          { label: 'Refuse', value: 'refuse' },
        ]
      : question.options;
  return (
    <form className="question" onSubmit={submit} aria-label="The agent asks">
      <p>{question.question}</p>
      <fieldset disabled={isSent}>
        <legend className="hidden">Answers</legend>
        {question.interactionType === 'text' ? (
          <>
            <input value={words} onChange={(event) => setWords(event.target.value)} aria-label="Your answer" required />
            <button type="submit">Answer</button>
          </>
        ) : question.interactionType === 'multi_select' ? (
          <>
            {options.map((option) => (
              <label key={option.value}>
                <input
                  type="checkbox"
                  checked={chosen.includes(option.value)}
                  onChange={() =>
                    setChosen((before) =>
                      before.includes(option.value) ? before.filter((value) => value !== option.value) : [...before, option.value],
                    )
                  }
                />{' '}
                {option.label}
              </label>
            ))}
            <button type="submit">Answer</button>
          </>
        ) : (
          options.map((option) => (
            <button key={option.value} type="button" title={option.description ?? undefined} onClick={() => void answer(option.value)}>
              {option.label}
            </button>
          ))
        )}
      </fieldset>
      {error ? <ErrorNote error={error} /> : null}
    </form>
  );
}

function told(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  if (answer && typeof answer === 'object' && 'decision' in answer) return String(answer.decision);
  return JSON.stringify(answer);
}
