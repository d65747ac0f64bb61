const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\]|::1)$/;

/** Whether what is sent to a host never leaves this machine. @param host as `URL` writes it */
export const isLoopback = (host: string): boolean => loopback.test(host);
