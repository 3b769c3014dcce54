// What the page does while the rest of its script is on its way: it asks who is signed in and which chats there are, and loads the texts of its
// language and the view of a conversation. The build makes a small file of this folder, which runs first (see vite.config.ts).
//
// Invariant: this folder imports only `api/localStore` of the others, or the small file would wait for the large one.
import * as localStore from '../api/localStore';
import './catalogue';
import { sendEarly } from './requests';

/** As `usePages` asks for the chats in the sidebar. */
const LISTS = [
  '/api/conversations?pinned=true&limit=50',
  '/api/conversations?pinned=false&folder=none&limit=50',
] as const;

// The view of a conversation is a separate file.
if (/^\/(c|new)\//.test(location.pathname)) import('../chat/ChatView').catch(() => {});

// What is behind a # may sign a user in, which must come before all requests. A shared chat needs none of them.
if (location.hash === '' && !/^\/shared(\/|$)/.test(location.pathname)) {
  sendEarly('/api/me');
  // The last user is probably still signed in.
  if (localStore.lastUser() !== null) for (const path of LISTS) sendEarly(path);
}
