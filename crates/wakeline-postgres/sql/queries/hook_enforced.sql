-- The schemas of those of some event types that enforce theirs. Called by: whoever stores messages along
-- with another write.
SELECT t.name, t.schemas FROM @schema@.hook_event_types t
WHERE t.name = ANY ($1) AND t.enforced AND t.schemas IS NOT NULL
