import type { Socket } from 'node:net';

/** How long a client may go on sending after it was told to close. */
const lingerMs = 5_000;

/**
 * Closes a connection so that its client can read the last answer: what it still sends is taken and dropped until it
 * closes too, for a bounded time. A connection that is closed with bytes unread is reset (RFC 9112, 9.6), and a reset
 * takes away what the client has not read yet.
 */
export function linger(socket: Socket): void {
  if (socket.destroyed) return;
  const cut = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(cut));
  const closeWhenBothHaveEnded = () => {
    if (socket.readableEnded && socket.writableFinished) socket.destroy();
  };
  socket.once('end', closeWhenBothHaveEnded).once('finish', closeWhenBothHaveEnded);
  socket.end();
  // Node's server reads past the stream while its parser has the connection, and only its own handler, which hears of it a
  // tick later, starts that again: the parser may have paused it meanwhile for a body that nobody reads.
  setImmediate(() => {
    socket.resume();
    process.nextTick(() => {
      // Whatever comes now is no request. A listener of ours takes the bytes back from the parser.
      socket.removeAllListeners('data');
      socket.on('data', () => {});
    });
  });
}

/** Has Node close this connection of its HTTP server in that way, where it would destroy it after the last answer. */
export function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => linger(socket);
}
