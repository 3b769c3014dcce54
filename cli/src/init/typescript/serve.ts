// Serves the tools until SIGTERM or SIGINT.
import { Worker } from '@rejoin/sdk';
import { orderStatus, refund } from './tools.js';

await new Worker([orderStatus, refund]).run();
