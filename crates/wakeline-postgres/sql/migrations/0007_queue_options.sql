-- Options of queues: how long messages stay, how many there may be, in which order partitions are
-- offered, whether payloads are encrypted. Their defaults lose and delay nothing.

ALTER TABLE @schema@.queues
    ADD retry_jitter_percent integer NOT NULL DEFAULT 0,
    ADD ttl_secs bigint NOT NULL DEFAULT 0,
    ADD len_max bigint NOT NULL DEFAULT 0,
    ADD partition_len_max bigint NOT NULL DEFAULT 0,
    ADD retention boolean NOT NULL DEFAULT false,
    ADD retention_secs bigint NOT NULL DEFAULT 0,
    ADD completed_retention_secs bigint NOT NULL DEFAULT 0,
    ADD wait_secs_max bigint NOT NULL DEFAULT 0,
    ADD encrypted boolean NOT NULL DEFAULT false,
    ADD lanes bigint NOT NULL DEFAULT 0,
    ADD partition_priorities jsonb NOT NULL DEFAULT '{}';
