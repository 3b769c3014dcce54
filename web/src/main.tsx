import './early/early';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { takeAccountConsent } from './accounts/consent';
import { Problem } from './api/http';
import { takeConsent } from './calendar/consent';
import { router } from './router';
import { ENTRY, SignInGate } from './SignInGate';
import { installWorker } from './shell/worker';
import { t } from './ui/language';
import { lazyPart } from './ui/lazyView';
import './ui/theme';
import './styles.css';

/** How long the page waits for its user before it says that it does, in milliseconds. */
const PATIENCE_MS = 300;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal is an answer; only silence is worth another try.
      retry: (failures, error) => !(error instanceof Problem && error.status < 500) && failures < 5,
      staleTime: 2_000,
    },
  },
});

takeConsent();
takeAccountConsent();
// Behind all that the page itself loads. The development server has no such file.
if (import.meta.env.PROD) addEventListener('load', () => void installWorker().catch(() => {}));

const SharedView = lazyPart(async () => (await import('./sharing/SharedView')).default, t('the shared chat'));
/** The address of a shared conversation, with its token: its readers need not sign in. */
const shared = /^\/shared(?:\/(.*))?$/.exec(location.pathname);

function draw(root: HTMLElement): void {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        {shared ? (
          <SharedView token={shared[1] ?? ''} />
        ) : (
          <SignInGate>
            <RouterProvider router={router} />
          </SignInGate>
        )}
      </QueryClientProvider>
    </StrictMode>,
  );
}

const root = document.getElementById('root');
if (root && shared) draw(root);
else if (root) {
  // The answer is probably there already. Until then the page has its icon.
  const known = queries.prefetchQuery(ENTRY);
  void Promise.race([known, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]).then(() => draw(root));
}
