/** Documents of a screen: loaded when it opens, and again when something changes. */

import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "../api/client";

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  loading: boolean;
  reload(): void;
}

/**
 * Load a document while a screen is shown.
 *
 * The former document stays until the new one arrives, unless *key* changes; with *keep*
 * also then.
 */
export function useDocument<T>(
  key: string,
  load: (abort: AbortSignal) => Promise<T>,
  version: unknown = 0,
  keep = false,
): Loaded<T> {
  const [found, setFound] = useState<{ key: string; value: T | null; error: string | null }>({
    key: "",
    value: null,
    error: null,
  });
  const [loading, setLoading] = useState(true);
  const [attempt, setAttempt] = useState(0);
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    const abort = new AbortController();
    setLoading(true);
    current.current(abort.signal).then(
      (value) => {
        if (abort.signal.aborted) return;
        setFound({ key, value, error: null });
        setLoading(false);
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setFound((old) => ({ key, value: old.key === key ? old.value : null, error: sentence(error) }));
        setLoading(false);
      },
    );
    return () => abort.abort();
  }, [key, version, attempt]);
  const fresh = keep || found.key === key;
  return {
    value: fresh ? found.value : null,
    error: fresh ? found.error : null,
    loading,
    reload: () => setAttempt((old) => old + 1),
  };
}
