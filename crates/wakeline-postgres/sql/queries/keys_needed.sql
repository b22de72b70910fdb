-- Returns what cannot be used without encryption keys.
SELECT EXISTS (SELECT FROM @schema@.queues q WHERE q.encrypted),
    EXISTS (SELECT FROM @schema@.hook_endpoints e WHERE e.deleted_at IS NULL)
