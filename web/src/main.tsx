import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { takeAccountConsent } from './accounts/consent';
import { Problem } from './api/http';
import { takeConsent } from './calendar/consent';
import { router } from './router';
import { SignInGate } from './SignInGate';
import './ui/theme';
import './styles.css';

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

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <SignInGate>
          <RouterProvider router={router} />
        </SignInGate>
      </QueryClientProvider>
    </StrictMode>,
  );
}
