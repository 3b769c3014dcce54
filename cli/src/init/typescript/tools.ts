// Tools of this program. serve.ts serves them to the agents of Rejoin.
import { appendFileSync } from 'node:fs';
import { ToolFailure, tool } from '@rejoin/sdk';
import { z } from 'zod';

const ORDERS = new Map([
  ['A-7', 12.5],
  ['B-8', 99.9],
]);
const input = z.object({ order: z.string() });

/** Returns the price of an order. */
export function priceOf(order: string): number {
  const price = ORDERS.get(order);
  if (price === undefined)
    throw new ToolFailure(`There is no order ${order}. Known orders: ${[...ORDERS.keys()].join(', ')}.`);
  return price;
}

export const orderStatus = tool({
  name: 'order_status',
  description: 'Returns the price and the status of an order, such as A-7.',
  input,
  readOnly: true,
  run: async ({ order }) => ({ order, price: priceOf(order), status: 'shipped' }),
});

export const refund = tool({
  name: 'refund',
  description: 'Refunds an order, if the user agrees.',
  input,
  durable: true,
  run: async ({ order }, call) => {
    const price = priceOf(order);
    const answer = await call.askUser(`Refund ${price} euros for ${order}?`, { options: ['yes', 'no'] });
    if (answer !== 'yes') return { order, status: 'kept' };
    // Recorded: it happens once, whatever happens to this program.
    await call.step('pay', async () => appendFileSync('refunds.txt', `${order} ${price}\n`));
    return { order, status: 'refunded' };
  },
});
