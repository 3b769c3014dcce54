import { CopilotKitContext, EMPTY_SET } from '@copilotkit/react-core/v2/context';
import { CopilotKitCoreReact } from '@copilotkit/react-core/v2/headless';
import { createRoot } from 'react-dom/client';
import { App } from './App';
import { ThreadAgent } from './ThreadAgent';

// The address of the page names the thread once it has a message, so that a reload opens the same one.
const agent = new ThreadAgent(location.hash.slice(1) || crypto.randomUUID());
// The agent is Rejoin itself: there is no CopilotKit runtime.
const copilotkit = new CopilotKitCoreReact({ agents__unsafe_dev_only: { default: agent } });

createRoot(document.getElementById('root') as HTMLElement).render(
  <CopilotKitContext.Provider value={{ copilotkit, executingToolCallIds: EMPTY_SET }}>
    <App />
  </CopilotKitContext.Provider>,
);
