-- Whether there are encrypted queues, and whether there are webhook endpoints. Neither can be used
-- without encryption keys.
SELECT EXISTS (SELECT 1 FROM queues WHERE json_extract(options, '$.encrypted') = 1),
    EXISTS (SELECT 1 FROM hook_endpoints WHERE deleted_at IS NULL)
