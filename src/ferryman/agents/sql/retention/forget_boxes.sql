-- The boxes and cards of turns that were forgotten, as far as nothing needs them.
select ferryman.forget_boxes(:boxes::uuid[], :turns::uuid[], ferryman.clock() - :kept::interval) as gone
