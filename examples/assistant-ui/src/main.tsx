import { createRoot } from 'react-dom/client';
import { App } from './App';

// The address of the page names the chat, so that a reload opens the same one.
location.hash ||= crypto.randomUUID();
const id = location.hash.slice(1);
const response = await fetch(`/api/ai/chat/${id}`);
if (!response.ok) throw new Error(await response.text());
const { messages } = await response.json();

createRoot(document.getElementById('root') as HTMLElement).render(<App id={id} stored={messages} />);
