// Dictation by the browser's speech recognition (Web Speech API). Some browsers send the sound to a service of their maker for that.
import { useEffect, useRef, useState } from 'react';
import { t } from '../ui/language';

/** What is used of the API, which TypeScript does not declare. */
interface Recognition {
  lang: string;
  continuous: boolean;
  interimResults: boolean;
  onresult: ((event: { resultIndex: number; results: SpeechRecognitionResultList }) => void) | null;
  onerror: ((event: { error: string }) => void) | null;
  onend: (() => void) | null;
  start(): void;
  stop(): void;
  abort(): void;
}

type Recognizer = new () => Recognition;

const { SpeechRecognition, webkitSpeechRecognition } = globalThis as {
  SpeechRecognition?: Recognizer;
  webkitSpeechRecognition?: Recognizer;
};
/** Undefined: this browser has none. */
const Recognizer = SpeechRecognition ?? webkitSpeechRecognition;

const BLOCKED = t(
  'The browser blocks the microphone for this page. Allow it in the settings of the site, then try again.',
);
const ERRORS: Record<string, string> = {
  'not-allowed': BLOCKED,
  'service-not-allowed': BLOCKED,
  'audio-capture': t('No microphone was found. Connect one, then try again.'),
  'no-speech': t('No speech was heard. Check the microphone, then try again.'),
  network: t("The browser can't reach its speech service. Try again later, or type the message."),
  'language-not-supported': t(
    "The browser's speech recognition does not know your language. Type the message instead.",
  ),
};

interface Dictation {
  isOffered: boolean;
  isListening: boolean;
  /** Words that may still change. */
  unsure: string;
  error: Error | null;
  toggle: () => void;
  /** Ends it without the words that are not sure yet. */
  cancel: () => void;
}

/** `onWords` receives the words as they become sure. */
export function useDictation(onWords: (words: string) => void): Dictation {
  const [isListening, setListening] = useState(false);
  const [unsure, setUnsure] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const active = useRef<Recognition | null>(null);
  const receive = useRef(onWords);
  useEffect(() => {
    receive.current = onWords;
  });
  useEffect(() => () => active.current?.abort(), []);
  const fail = (code: string) => {
    // The user, or this page, has ended it.
    if (code === 'aborted') return;
    setError(new Error(ERRORS[code] ?? t("The browser's speech recognition failed ({code}). Try again.", { code })));
  };
  const start = () => {
    if (!Recognizer) return;
    const recognition = new Recognizer();
    recognition.lang = navigator.language;
    recognition.continuous = true;
    recognition.interimResults = true;
    recognition.onresult = ({ resultIndex, results }) => {
      const fresh = [...results].slice(resultIndex);
      const heard = (isFinal: boolean) =>
        fresh
          .filter((result) => result.isFinal === isFinal)
          .map((result) => result[0]?.transcript.trim() ?? '')
          .join(' ');
      if (heard(true) !== '') receive.current(heard(true));
      setUnsure(heard(false));
    };
    recognition.onerror = ({ error }) => fail(error);
    recognition.onend = () => {
      active.current = null;
      setListening(false);
      setUnsure('');
    };
    setError(null);
    try {
      recognition.start();
      active.current = recognition;
      setListening(true);
    } catch (failure) {
      fail(failure instanceof Error ? failure.name : 'unknown');
    }
  };
  return {
    isOffered: Recognizer !== undefined,
    isListening,
    unsure,
    error,
    toggle: isListening ? () => active.current?.stop() : start,
    cancel: () => active.current?.abort(),
  };
}
