// The message field. Enter sends, Shift+Enter inserts a line break. Unsent text is kept as a draft.
import { ArrowUp, CornerUpRight, ListPlus, Mic, MicOff, Paperclip, Square } from 'lucide-react';
import { type KeyboardEvent, memo, type ReactNode, useEffect, useRef, useState } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { AgentPicker, PLAIN } from './AgentPicker';
import { useAgents } from './agents';
import { Chips } from './Chips';
import { useChosenModel } from './chosenModel';
import { EMPTY, useDraft } from './draft';
import { readText, type TextFile, withFiles } from './files';
import { ModelPicker } from './ModelPicker';
import { isUploaded, type StoredFile, type Upload } from './uploads';
import { useDictation } from './useDictation';
import { useUploads } from './useUploads';

/** What answers a message, where that is not as usual. */
export interface Chosen {
  /** Only of a new conversation. */
  agentDefinitionId?: string | undefined;
  model?: string | undefined;
}

interface Props {
  /** Names the draft, and the model that is chosen with it. */
  draft: string;
  /** null: the message is kept until it is sent. A promise: it stays in the field until that settles. */
  onSend: (message: string, attachments: readonly StoredFile[], chosen: Chosen) => Promise<unknown> | null;
  /** Only while a run is at work. */
  onStop?: (() => Promise<unknown>) | undefined;
  onSteer?: ((message: string) => Promise<unknown>) | undefined;
  isBusy?: boolean;
  chooseAgent?: boolean;
  /** The agent of an open chat; null: none. undefined: not known yet. */
  agentId?: string | null | undefined;
  /** Changes it. */
  onAgent?: ((agentDefinitionId: string) => Promise<unknown>) | undefined;
  /** What the conversation is about. */
  about?: ReactNode;
}

/** As in composer.css. */
const MAX_ROWS_PX = 220;
/** The browser itself makes the field as high as its text. Measuring it lays the page out with each key. */
const IS_SIZED = CSS.supports('field-sizing', 'content');

/** Memoised: it stays as it is while an answer streams, if its functions do. */
export const Composer = memo(function Composer({
  draft,
  onSend,
  onStop,
  onSteer,
  isBusy = false,
  chooseAgent = false,
  agentId,
  onAgent,
  about,
}: Props) {
  const [{ words, files, attachments }, write] = useDraft(draft);
  const [model, chooseModel] = useChosenModel(draft);
  const [agent, setAgent] = useState<string | null>(null);
  const [unfit, setUnfit] = useState<unknown>(null);
  /** What is in the field is on its way; the browser has no other place for it. */
  const [isHeld, setHeld] = useState(false);
  const [isUnkept, setUnkept] = useState(false);
  /** Files are held over it. */
  const [isOver, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!opensKeyboard()) field.current?.focus();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect measures the field, whose content `words` is.
  useEffect(() => {
    const element = field.current;
    if (!element || IS_SIZED) return;
    element.style.blockSize = 'auto';
    element.style.blockSize = `${Math.min(element.scrollHeight, MAX_ROWS_PX)}px`;
  }, [words]);
  const mayChange = onAgent !== undefined && agentId !== undefined;
  const agents = useAgents(chooseAgent || mayChange);
  const chosen = agent ?? (mayChange ? agentId : agents.find((one) => one.isDefault)?.id) ?? PLAIN;
  const description = agents.find((one) => one.id === chosen)?.description;
  const choose = (id: string) => {
    setAgent(id);
    // Of an open chat, the choice is shown until the server has it, or has refused it.
    if (mayChange)
      void onAgent(id)
        .catch(() => {})
        .finally(() => setAgent((now) => (now === id ? null : now)));
  };
  const {
    uploads,
    add: upload,
    leaveOut: leaveOutUpload,
    retry,
  } = useUploads(draft, (add) => write((now) => ({ attachments: add(now.attachments) })));
  const attach = async (chosen: Iterable<File>) => {
    // A picker's list is empty as soon as it is used again.
    const all = [...chosen];
    setUnfit(null);
    for (const file of all.filter(isUploaded)) upload(file);
    try {
      const read = await Promise.all(all.filter((file) => !isUploaded(file)).map(readText));
      if (read.length > 0) write((now) => ({ files: [...now.files, ...read] }));
    } catch (error) {
      setUnfit(error);
    }
    field.current?.focus();
  };
  const dictation = useDictation((heard) =>
    write(({ words }) => ({ words: /\S$/.test(words) ? `${words} ${heard}` : words + heard })),
  );
  const leaveOut = (what: TextFile | StoredFile | Upload) => {
    if ('key' in what) leaveOutUpload(what);
    else if ('fileId' in what)
      write((now) => ({ attachments: now.attachments.filter((one) => one.fileId !== what.fileId) }));
    else write((now) => ({ files: now.files.filter((one) => one !== what) }));
    field.current?.focus();
  };
  const isEmpty = words.trim() === '' && files.length === 0;
  const isUploading = uploads.some(({ error }) => error === undefined);
  // Why it can't be sent yet.
  const lacks =
    isEmpty && attachments.length > 0
      ? t('Write what to do with the files.')
      : isUploading
        ? t('You can send the message once its files are uploaded.')
        : '';
  const hand = async (over: (message: string) => Promise<unknown> | null) => {
    if (isEmpty || isHeld || isUploading) return;
    try {
      setUnfit(null);
      dictation.cancel();
      const sent = over(withFiles(words.trim(), files));
      setHeld(sent !== null);
      await sent;
      write(EMPTY);
    } catch (error) {
      // Nothing that was written is lost.
      setUnfit(error);
    } finally {
      setHeld(false);
      setUnkept(false);
      // The focus stays where the user is typing by now.
      const focused = document.activeElement;
      if (!focused || focused === document.body || field.current?.form?.contains(focused)) field.current?.focus();
    }
  };
  const send = () =>
    hand((message) => {
      const sent = onSend(message, attachments, { agentDefinitionId: chosen === PLAIN ? undefined : chosen, model });
      setUnkept(sent !== null);
      return sent;
    });
  const stop = () => {
    void onStop?.().catch(() => {});
    // The button goes away.
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void send();
    }
    // Escape also leaves an input method, and what is being written: then it is not about the answer.
    if (event.key === 'Escape' && !event.nativeEvent.isComposing && isEmpty) stop();
  };
  return (
    <form
      className={isOver ? 'composer over' : 'composer'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void attach(event.dataTransfer.files);
      }}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <div className="box">
        <label htmlFor="words" className="hidden">
          {t('Message')}
        </label>
        <textarea
          id="words"
          ref={field}
          rows={1}
          value={words}
          readOnly={isHeld}
          placeholder={isBusy ? t('Queue a follow-up, or steer the current answer') : t('Ask anything')}
          onChange={(event) => write({ words: event.target.value })}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            if (event.clipboardData.files.length === 0) return;
            event.preventDefault();
            void attach(event.clipboardData.files);
          }}
        />
        <Chips files={files} attachments={attachments} uploads={uploads} onLeaveOut={leaveOut} onRetry={retry} />
        <p className="drop quiet" hidden={!isOver}>
          {t('Drop files to attach them')}
        </p>
        <div className="controls">
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            aria-label={t('Attach files')}
            onChange={(event) => {
              void attach(event.target.files ?? []);
              event.target.value = '';
            }}
          />
          <IconButton
            icon={Paperclip}
            label={t('Attach images, PDF, audio or text files')}
            onClick={() => picker.current?.click()}
          />
          {(chooseAgent || mayChange) && agents.length > 0 ? (
            <AgentPicker
              agents={agents}
              chosen={chosen}
              isPlainOffered={!mayChange || agentId === null}
              onChoose={choose}
            />
          ) : null}
          <ModelPicker model={model} onChoose={chooseModel} />
          <span className="fill" />
          {dictation.isOffered ? (
            <IconButton
              icon={dictation.isListening ? MicOff : Mic}
              label={dictation.isListening ? t('Stop dictation') : t('Dictate')}
              className={dictation.isListening ? 'listening' : ''}
              onClick={dictation.toggle}
            />
          ) : null}
          {onSteer ? (
            <button
              type="button"
              className="small"
              disabled={isEmpty || attachments.length > 0 || uploads.length > 0}
              title={
                attachments.length > 0
                  ? t('Files can’t be added to the current answer. Queue the message instead.')
                  : t('The agent takes this into account in its next step')
              }
              onClick={() => void hand(onSteer)}
            >
              <CornerUpRight className="icon" /> {t('Steer')}
            </button>
          ) : null}
          {onStop ? (
            <IconButton icon={Square} label={t('Stop')} keys={t('Escape')} className="stop" onClick={stop} />
          ) : null}
          <IconButton
            type="submit"
            icon={isBusy ? ListPlus : ArrowUp}
            label={isBusy ? t('Queue') : t('Send')}
            keys={t('Enter')}
            className="primary"
            disabled={isEmpty || isUploading}
          />
        </div>
      </div>
      <p className="note quiet" role="status" hidden={lacks === ''}>
        {lacks}
      </p>
      <p className="note quiet" role="status" hidden={!dictation.isListening}>
        {dictation.isListening ? t('Listening… {words}', { words: dictation.unsure }) : ''}
      </p>
      {dictation.error ? <ErrorNote error={dictation.error} /> : null}
      {unfit ? <ErrorNote error={unfit} /> : null}
      {isUnkept ? (
        <p className="note" role="status">
          {t(
            "This browser can't store the message: its storage is full or blocked. Keep this page open until the message is sent; it stays in the field until then.",
          )}
        </p>
      ) : null}
      {chooseAgent && description ? (
        <p dir="auto" className="about-agent quiet">
          {description}
        </p>
      ) : null}
      {about}
    </form>
  );
});

/** Where a focused field opens a keyboard on the screen, it waits to be touched. */
function opensKeyboard(): boolean {
  return matchMedia('(pointer: coarse)').matches;
}
