/** A TCP proxy that does to connections what networks do: cuts, freezes, refuses, slows down, and swallows answers. */
import type { AddressInfo, Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/** How long each piece is held back where it is slow [ms]. */
const SLOW_MS = 30;
/** The request for a conversation's stream. A small request arrives in one piece. */
const STREAM = /^GET \/api\/conversations\/[^/ ]+\/events[? ]/;

export class FaultyProxy {
  url = '';
  /** Connections that were made through it. */
  connections = 0;
  /** Requests for streams of conversations. */
  streams = 0;
  /** New connections are closed at once. */
  refusing = false;
  /** Pieces are small and late. */
  slow = false;
  /** Of the next connection, nothing comes back; it is cut when the answer would begin. */
  swallowNext = false;
  #frozen = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(private readonly target: URL) {
    this.#server = createServer((near) => this.#join(near));
  }

  static async to(url: string): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(new URL(url));
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as AddressInfo).port}`;
    return proxy;
  }

  /** All connections are reset. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** From now on nothing passes, and neither side is notified. */
  freeze(): void {
    this.#frozen = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** New connections work; the frozen ones stay as they are. */
  thaw(): void {
    this.#frozen = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(near: Socket): void {
    near.on('error', () => {});
    if (this.refusing) return void near.destroy();
    this.connections++;
    const swallow = this.swallowNext;
    this.swallowNext = false;
    const far = connect(Number(this.target.port), this.target.hostname);
    far.on('error', () => {});
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    near.on('data', (bytes) => {
      if (STREAM.test(bytes.toString('latin1'))) this.streams++;
      if (!this.#frozen) far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (swallow) return void near.destroy();
      if (this.#frozen) return;
      if (!this.slow) return void near.write(bytes);
      far.pause();
      const middle = bytes.length >> 1;
      near.write(bytes.subarray(0, middle));
      setTimeout(() => {
        if (!near.destroyed) near.write(bytes.subarray(middle));
        if (!this.#frozen) far.resume();
      }, SLOW_MS);
    });
    if (this.#frozen) near.pause();
  }
}
