-- When a group was last polled, as far as that was recorded, and whether it has ever settled anything.
-- Called by: idle::is_poll_due.
SELECT polled_at, settled FROM groups WHERE group_id = ?1
