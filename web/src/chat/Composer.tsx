// Where one writes. Enter sends, Shift+Enter breaks the line; a draft that is refused stays.
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote } from '../ui/parts';
import { readText, type TextFile, withFiles } from './files';

interface Props {
  onSend: (message: string, agentDefinitionId?: string) => Promise<unknown>;
  /** Only while a run is at work. */
  onStop?: (() => Promise<unknown>) | undefined;
  onTell?: ((message: string) => Promise<unknown>) | undefined;
  isBusy?: boolean;
  chooseAgent?: boolean;
  /** What the conversation is about. */
  about?: ReactNode;
}

const MAX_ROWS_PX = 220;
/** The choice that asks no agent. */
const PLAIN = 'plain';

export function Composer({ onSend, onStop, onTell, isBusy = false, chooseAgent = false, about }: Props) {
  const [words, setWords] = useState('');
  const [agent, setAgent] = useState<string | null>(null);
  const [files, setFiles] = useState<readonly TextFile[]>([]);
  const [unfit, setUnfit] = useState<unknown>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  /** The message before this one, until it is stored. */
  const before = useRef<Promise<unknown>>(Promise.resolve());
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.blockSize = 'auto';
    element.style.blockSize = `${Math.min(element.scrollHeight, MAX_ROWS_PX)}px`;
  }, [words]);
  const agents = useAgents(chooseAgent);
  const chosen = agent ?? agents.find((one) => one.isDefault)?.id ?? PLAIN;
  const attach = async (chosen: Iterable<File>) => {
    try {
      setUnfit(null);
      const read = await Promise.all([...chosen].map(readText));
      setFiles((before) => [...before, ...read]);
    } catch (error) {
      setUnfit(error);
    }
    field.current?.focus();
  };
  const isEmpty = words.trim() === '' && files.length === 0;
  const hand = async (over: (message: string) => Promise<unknown>) => {
    if (isEmpty) return;
    let message: string;
    try {
      message = withFiles(words.trim(), files);
      setUnfit(null);
    } catch (error) {
      setUnfit(error);
      return;
    }
    setWords('');
    setFiles([]);
    // One behind the other: what is written first, is said first.
    const sent = before.current.then(() => over(message));
    before.current = sent.catch(() => {});
    try {
      await sent;
    } catch {
      // It was told; nothing that was written is lost.
      setWords((now) => now || words);
      setFiles((now) => (now.length > 0 ? now : files));
    } finally {
      // Whoever writes elsewhere by now, goes on there.
      const focused = document.activeElement;
      if (!focused || focused === document.body || field.current?.form?.contains(focused)) field.current?.focus();
    }
  };
  const send = () => hand((message) => onSend(message, chosen === PLAIN ? undefined : chosen));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void send();
    }
    if (event.key === 'Escape' && onStop) void onStop();
  };
  return (
    <form
      className="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach(event.dataTransfer.files);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label htmlFor="words" className="hidden">
        Message
      </label>
      <textarea
        id="words"
        ref={field}
        rows={1}
        value={words}
        placeholder={isBusy ? 'The next message, or a word to the run' : 'Ask anything'}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          if (event.clipboardData.files.length === 0) return;
          event.preventDefault();
          void attach(event.clipboardData.files);
        }}
      />
      {files.length > 0 ? (
        <ul className="chips" aria-label="Files that go along">
          {files.map((file, nth) => (
            <li key={nth}>
              {file.name} <span className="quiet">{file.content.length.toLocaleString('en')} characters</span>
              <button type="button" className="plain small" aria-label={`Leave out ${file.name}`} onClick={() => setFiles(files.filter((one) => one !== file))}>
                ✕
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      {unfit ? <ErrorNote error={unfit} /> : null}
      {about}
      <div className="controls">
        {chooseAgent && agents.length > 0 ? (
          <select aria-label="Agent" value={chosen} onChange={(event) => setAgent(event.target.value)}>
            <option value={PLAIN}>no agent</option>
            {agents.map((one) => (
              <option key={one.id} value={one.id} title={one.description}>
                {one.name}
              </option>
            ))}
          </select>
        ) : null}
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to send along"
          onChange={(event) => {
            void attach(event.target.files ?? []);
            event.target.value = '';
          }}
        />
        <button type="button" title="Text files; they become part of the message" onClick={() => picker.current?.click()}>
          Attach
        </button>
        <span className="fill" />
        {onTell ? (
          <button type="button" disabled={isEmpty} title="The run takes it with its next step" onClick={() => void hand(onTell)}>
            Tell the run
          </button>
        ) : null}
        {onStop ? (
          <button type="button" onClick={() => void onStop().catch(() => {})}>
            Stop
          </button>
        ) : null}
        <button type="submit" className="primary" disabled={isEmpty}>
          {isBusy ? 'Queue' : 'Send'}
        </button>
      </div>
    </form>
  );
}

function useAgents(isWanted: boolean): Schemas['AgentItem'][] {
  const me = useMe();
  const page = useQuery({
    queryKey: ['agents'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=100`),
    enabled: isWanted,
    staleTime: 60_000,
  });
  return page.data?.items ?? [];
}
