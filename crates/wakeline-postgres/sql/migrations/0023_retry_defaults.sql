-- A queue whose options nobody set waits before a retry: 1 s, doubled with each failure up to 5 min,
-- each wait shortened by up to 20 percent. Queues that exist keep what they have.
ALTER TABLE @schema@.queues
    ALTER retry_delay_ms SET DEFAULT 1000,
    ALTER retry_delay_ms_max SET DEFAULT 300000,
    ALTER retry_jitter_percent SET DEFAULT 20;
