-- The last recorded poll of a group, and whether the group has ever settled a message.
SELECT polled_at, settled FROM groups WHERE group_id = ?1
