// Tests the saved version of an agent in a new conversation next to its editor.
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';
import { Answer, ask, OpenInChat } from './ask';

export function TestRun({ agentId }: { agentId: string }) {
  const [words, setWords] = useState('');
  const asked = useMutation({ mutationFn: (message: string) => ask(agentId, message) });
  const conversation = asked.data;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    asked.mutate(words);
  };
  return (
    <section className="trial" aria-label={t('Try it')}>
      <h2>{t('Try it')}</h2>
      <form onSubmit={submit}>
        <textarea
          aria-label={t('Test message')}
          rows={3}
          value={words}
          required
          placeholder={t('Ask the saved version of this agent')}
          onChange={(event) => setWords(event.target.value)}
        />
        <div className="controls">
          <button type="submit" disabled={words.trim() === '' || asked.isPending}>
            {conversation === undefined ? t('Ask') : t('Ask again')}
          </button>
          {conversation === undefined ? null : <OpenInChat id={conversation} />}
        </div>
      </form>
      {asked.isError ? <ErrorNote error={asked.error} /> : null}
      {conversation === undefined ? null : <Answer key={conversation} id={conversation} />}
    </section>
  );
}
