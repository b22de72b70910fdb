-- Records how far the children of a deleted instance have been deleted. ?3: all of them have.
UPDATE lane_leftovers SET after_lane = max(after_lane, ?2), parent = CASE WHEN ?3 THEN NULL ELSE parent END
WHERE leftover_id = ?1
