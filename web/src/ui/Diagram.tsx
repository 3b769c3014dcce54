// A diagram of nodes and lines. Its code and the layout are loaded when a page first shows one.

import { t } from './language';
import { lazyPart } from './lazyView';

export const Diagram = lazyPart(async () => (await import('./diagram/Drawing')).Drawing, t('the diagram'));
