// Loads views on demand. A view that fails to load shows an error with a retry button; the page stays.
import type { ErrorComponentProps } from '@tanstack/react-router';
import { type ComponentType, createElement, useEffect, useState } from 'react';
import { t } from './language';
import { ErrorNote, Waiting } from './parts';
import { useTitle } from './title';

/** A file of the page could not be fetched: the server is away, or serves another version of the page by now. */
export class NotLoaded extends Error {
  constructor(cause: unknown) {
    super(t("Can't reach the server."), { cause });
    this.name = 'NotLoaded';
  }
}

interface Loaded<Props> {
  view?: ComponentType<Props>;
  error?: NotLoaded;
  pending?: Promise<void>;
}

/** Loads once. After a failure, the next request loads again. */
function loader<Props>(load: () => Promise<ComponentType<Props>>) {
  const now: Loaded<Props> = {};
  const preload = (): Promise<void> =>
    (now.pending ??= load()
      .then(
        (view) => {
          now.view = view;
          delete now.error;
        },
        (cause: unknown) => {
          now.error = new NotLoaded(cause);
        },
      )
      .finally(() => delete now.pending));
  return { now, preload };
}

/** A view of the router, as `lazyRouteComponent` makes them; that one would reload the page if a file can't be fetched. */
export function lazyView<Module extends Record<Name, ComponentType>, Name extends string>(
  load: () => Promise<Module>,
  name: Name,
) {
  const { now, preload } = loader(async () => (await load())[name] as ComponentType);
  // biome-ignore lint/correctness/noComponentHookFactories: like `React.lazy`, it is called once for a view, when its module loads, and never while rendering.
  const View = () => <Shown now={now} preload={preload} props={{}} what={t('this view')} isView />;
  return Object.assign(View, { preload });
}

/** A part of a view. */
export function lazyPart<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
  what: string,
): ComponentType<Props> {
  const { now, preload } = loader(load);
  return (props) => <Shown now={now} preload={preload} props={props} what={what} />;
}

interface ShownProps<Props> {
  now: Loaded<Props>;
  preload: () => Promise<void>;
  props: Props;
  what: string;
  isView?: boolean;
}

function Shown<Props extends object>({ now, preload, props, what, isView = false }: ShownProps<Props>) {
  const [, setCount] = useState(0);
  const isPending = !now.view && !now.error;
  useEffect(() => {
    if (isPending) void preload().then(() => setCount((count) => count + 1));
  }, [isPending, preload]);
  if (now.view) return createElement(now.view, props);
  if (now.error) {
    const error = now.error;
    const retry = async () => {
      await preload();
      // The server answers, and still has no such file: it serves another version of the page.
      if (now.error && (await isReachable())) location.reload();
      setCount((count) => count + 1);
    };
    return isView ? <Unreachable error={error} onRetry={retry} /> : <Note error={error} onRetry={retry} />;
  }
  return <Waiting what={what} />;
}

async function isReachable(): Promise<boolean> {
  try {
    return (await fetch('/', { method: 'HEAD', cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}

function Note({ error, onRetry }: { error: unknown; onRetry: () => Promise<void> }) {
  const [isBusy, setBusy] = useState(false);
  const retry = () => {
    setBusy(true);
    void onRetry().finally(() => setBusy(false));
  };
  return (
    <div>
      <ErrorNote error={error} />
      <button type="button" disabled={isBusy} onClick={retry}>
        {t('Retry')}
      </button>
    </div>
  );
}

function Unreachable({ error, onRetry }: { error: unknown; onRetry: () => Promise<void> }) {
  useTitle(t("Can't reach the server"));
  return (
    <main id="main" className="page">
      <h1>{t("This view can't be shown")}</h1>
      <Note error={error} onRetry={onRetry} />
    </main>
  );
}

/** A view that failed while it was shown. */
export function ViewFailed({ error, reset }: ErrorComponentProps) {
  useTitle(t('Something went wrong'));
  return (
    <main id="main" className="page">
      <h1>{t('Something went wrong in this view')}</h1>
      <ErrorNote error={error} />
      <button type="button" onClick={() => reset()}>
        {t('Retry')}
      </button>
    </main>
  );
}
