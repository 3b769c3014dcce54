// Two saved versions of an agent answer the same question, side by side. The address holds the two versions.
import { useMutation } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useTranscript } from '../../stream';
import { Failed } from '../../ui/Failed';
import { t } from '../../ui/language';
import { ErrorNote, Waiting } from '../../ui/parts';
import { Answer, ask, OpenInChat } from './ask';
import type { Definition } from './draft';
import { useVersions } from './Versions';

interface Trial {
  version: number;
  conversation: string;
}

export function TryVersions({ path, definition }: { path: string; definition: Definition }) {
  const { id } = definition;
  const navigate = useNavigate({ from: '/agents' });
  const chosen = useSearch({ from: '/agents' });
  const versions = useVersions(path, id);
  const [words, setWords] = useState('');
  const after = chosen.after ?? definition.version;
  const before = chosen.before ?? Math.max(1, after - 1);
  const asked = useMutation({
    mutationFn: (message: string): Promise<Trial[]> =>
      Promise.all([before, after].map(async (version) => ({ version, conversation: await ask(id, message, version) }))),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    asked.mutate(words);
  };
  if (versions.reading.isPending) return <Waiting what={t('versions')} />;
  if (versions.reading.isError) return <Failed reading={versions.reading} />;
  // A version of the address may be on a later page of the list.
  const numbers = [...new Set([...versions.items.map(({ version }) => version), before, after])].sort((a, b) => b - a);
  const [left, right] = asked.data ?? [];
  return (
    <section aria-label={t('Compare answers')}>
      <p className="quiet">
        {t(
          'Both versions answer the same question in a new conversation each. Tools really run, for each of them. To try changes, save them: the earlier version can be restored.',
        )}
      </p>
      <form className="editor" onSubmit={submit}>
        <div className="fields">
          {(['before', 'after'] as const).map((side) => (
            <label key={side}>
              {side === 'before' ? t('Left version') : t('Right version')}{' '}
              <select
                value={side === 'before' ? before : after}
                onChange={(event) =>
                  void navigate({
                    search: { agent: id, view: 'try', before, after, [side]: Number(event.target.value) },
                    replace: true,
                  })
                }
              >
                {numbers.map((version) => (
                  <option key={version} value={version}>
                    {version === definition.version ? t('{version} (current)', { version: String(version) }) : version}
                  </option>
                ))}
              </select>
            </label>
          ))}
        </div>
        <textarea
          aria-label={t('Question to both versions')}
          rows={3}
          required
          value={words}
          placeholder={t('Ask both versions')}
          onChange={(event) => setWords(event.target.value)}
        />
        <div className="controls">
          <button type="submit" className="primary" disabled={words.trim() === '' || asked.isPending}>
            {t('Ask both versions')}
          </button>
        </div>
      </form>
      {asked.isError ? <ErrorNote error={asked.error} /> : null}
      {left && right ? (
        <>
          <CompareRuns left={left} right={right} />
          <div className="beside equal">
            {[left, right].map(({ version, conversation }, nth) => (
              <section key={nth} aria-label={t('Answer of version {version}', { version: String(version) })}>
                <div className="title">
                  <h2>{t('Version {version}', { version: String(version) })}</h2>
                  <OpenInChat id={conversation} />
                </div>
                <Answer key={conversation} id={conversation} />
              </section>
            ))}
          </div>
        </>
      ) : null}
    </section>
  );
}

function CompareRuns({ left, right }: { left: Trial; right: Trial }) {
  const [one, other] = [useTranscript(left.conversation), useTranscript(right.conversation)].map(
    ({ view }) => view.turns[0]?.runId,
  );
  if (!one || !other) return null;
  return (
    <p>
      <Link to="/runs/$id/compare/$other" params={{ id: one, other }}>
        {t('Compare the two runs')}
      </Link>
    </p>
  );
}
