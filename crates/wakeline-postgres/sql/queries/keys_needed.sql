-- What cannot be used without keys. Called by: KeyedStore::keys_needed.
SELECT EXISTS (SELECT FROM @schema@.queues q WHERE q.encrypted),
    EXISTS (SELECT FROM @schema@.hook_endpoints e WHERE e.deleted_at IS NULL)
