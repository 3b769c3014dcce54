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
  const title = about.data ? shownTitle({ title: about.data.title, metadata: null }) : 'Shared chat';
  useTitle(isGone ? 'This link doesn’t work' : title);
  if (isGone)
    return (
      <Frame>
        <h1>This link doesn&apos;t work</h1>
        <p>It has expired or was revoked, or the address is not complete.</p>
        <p>Ask the person who shared the chat for a new link.</p>
      </Frame>
    );
  return (
    <Frame>
      <h1>{title}</h1>
      {about.data ? <About about={about.data} /> : null}
      {failed ? (
        <Failed reading={failed} />
      ) : about.isPending || reading.isPending ? (
        <Waiting what="the shared chat" />
      ) : messages.items.length === 0 ? (
        <p className="quiet">This chat has no messages yet.</p>
      ) : null}
      <ol className="items" aria-label="Messages">
        {messages.items.map((message) => (
          <li key={message.id}>
            <SharedMessage message={message} path={path} />
          </li>
        ))}
      </ol>
      <More of={messages} label="Load more messages" />
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
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {new Date(at).toLocaleDateString()}
    </time>
  );
  return (
    <p className="quiet">
      Read-only · Shared on {day(about.sharedAt)} · The link expires on {day(about.expiresAt)}
      {about.live ? ' · Later messages are included: reload the page to see them' : ''}
      {about.files ? '' : ' · Files are not included'}
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
      <article className="mine" aria-label="User">
        <MessageText content={content} />
        {attachments}
        <div className="row-actions">
          <CopyButton text={() => content} of="the message" />
        </div>
      </article>
    );
  return (
    <article className="turn" aria-label="Answer">
      <header>
        <Bot className="icon" />
        <b>Answer</b>
      </header>
      <Markdown text={content} isLive={false} />
      {attachments}
      <footer>
        <CopyButton text={() => content} of="the answer" />
      </footer>
    </article>
  );
}
