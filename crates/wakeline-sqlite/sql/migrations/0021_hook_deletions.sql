-- Endpoints and applications of any size are deleted in pieces, and old messages are removed.

-- 1: it is deleted, and deliveries wait for it that background work cancels.
ALTER TABLE hook_endpoints ADD COLUMN cancelling INTEGER NOT NULL DEFAULT 0;
CREATE INDEX hook_endpoints_cancelling ON hook_endpoints (endpoint_no) WHERE cancelling = 1;

-- Set: it is deleted, and its endpoints behind this id are still to be stopped.
ALTER TABLE hook_applications ADD COLUMN stop_after BLOB;

-- Messages by age, for retention.
CREATE INDEX hook_messages_created ON hook_messages (created_at, message_no);
