/**
 * Stands in files of secrets that were made for trying out: as a member of the JSON, or behind the key where the file is
 * one key. Whoever has the folder of `npm start`, or a backup of it, has these.
 */
export const developmentMark = 'purser_development';

/** Whether what a file or a variable holds was made for trying out. */
export function isDevelopmentSecret(text: string): boolean {
  return text.includes(developmentMark);
}
