SELECT tc_id, next_sequence FROM {raw}
