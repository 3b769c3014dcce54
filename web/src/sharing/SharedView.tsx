// Shows a shared conversation, read-only, to readers who need not sign in: it is outside of the router and of the sign-in, and its token is the
// reader's right.
import { useQuery } from '@tanstack/react-query';
import { Bot } from 'lucide-react';
import type { ReactNode } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { Attachments } from '../chat/Attachments';
import { LinksToGraph } from '../chat/citations';
import { Markdown } from '../chat/Markdown';
import { MessageText } from '../chat/MessageText';
import { shownTitle } from '../chat/titles';
import { Failed } from '../ui/Failed';
import { LOCALE, rich, t } from '../ui/language';
import { CopyButton, Waiting } from '../ui/parts';
import { Tooltips } from '../ui/Tooltips';
import { useTitle } from '../ui/title';
import './sharing.css';

type Message = Schemas['SharedMessage'];

export default function SharedView({ token }: { token: string }) {
  const path = `/api/shared/${token}`;
  const about = useQuery({
    queryKey: ['shared', token],
    queryFn: () => api<Schemas['SharedConversation']>(path),
  });
  const messages = usePages<Message>(['messages of a link', token], `${path}/messages`);
  const { reading } = messages;
  const failed = about.isError ? about : reading.isError ? reading : null;
  const isGone = failed?.error instanceof Problem && failed.error.status === 404;
  const title = about.data ? shownTitle({ title: about.data.title, metadata: null }) : t('Shared chat');
  useTitle(isGone ? t('This link doesn’t work') : title);
  if (isGone)
    return (
      <Frame>
        <h1>{t("This link doesn't work")}</h1>
        <p>{t('It has expired or was revoked, or the address is not complete.')}</p>
        <p>{t('Ask the person who shared the chat for a new link.')}</p>
      </Frame>
    );
  return (
    <Frame>
      <h1 dir="auto">{title}</h1>
      {about.data ? <About about={about.data} /> : null}
      {failed ? (
        <Failed reading={failed} />
      ) : about.isPending || reading.isPending ? (
        <Waiting what={t('the shared chat')} />
      ) : messages.items.length === 0 ? (
        <p className="quiet">{t('This chat has no messages yet.')}</p>
      ) : null}
      <ol className="items" aria-label={t('Messages')}>
        {messages.items.map((message) => (
          <li key={message.id}>
            <SharedMessage message={message} path={path} />
          </li>
        ))}
      </ol>
      <More of={messages} label={t('Load more messages')} />
    </Frame>
  );
}

function Frame({ children }: { children: ReactNode }) {
  return (
    <LinksToGraph.Provider value={false}>
      <div className="shared">
        <header>
          <a href="/" className="brand">
            <img src="/icon.svg" alt="" width="24" height="24" /> Rejoin
          </a>
        </header>
        <main id="main">{children}</main>
      </div>
      <Tooltips />
    </LinksToGraph.Provider>
  );
}

function About({ about }: { about: Schemas['SharedConversation'] }) {
  const day = (at: string) => (
    <time dateTime={at} title={new Date(at).toLocaleString(LOCALE)}>
      {new Date(at).toLocaleDateString(LOCALE)}
    </time>
  );
  return (
    <p className="quiet">
      {t('Read-only')} · {rich('Shared on {day}', { day: day(about.sharedAt) })} ·{' '}
      {rich('The link expires on {day}', { day: day(about.expiresAt) })}
      {about.live ? ` · ${t('Later messages are included: reload the page to see them')}` : ''}
      {about.files ? '' : ` · ${t('Files are not included')}`}
    </p>
  );
}

function SharedMessage({ message, path }: { message: Message; path: string }) {
  const { role, content } = message;
  const attachments = (
    <Attachments
      files={message.files.map(({ id, ...file }) => ({ fileId: id, ...file }))}
      addressOf={(id) => `${path}/files/${encodeURIComponent(id)}`}
    />
  );
  if (role === 'user')
    return (
      <article className="mine" aria-label={t('User')}>
        <MessageText content={content} />
        {attachments}
        <div className="row-actions">
          <CopyButton text={() => content} of={t('the message')} />
        </div>
      </article>
    );
  return (
    <article className="turn" aria-label={t('Answer')}>
      <header>
        <Bot className="icon" />
        <b>{t('Answer')}</b>
      </header>
      <Markdown text={content} isLive={false} />
      {attachments}
      <footer>
        <CopyButton text={() => content} of={t('the answer')} />
      </footer>
    </article>
  );
}
