"""Running the commands of a skill: in a workspace, isolated as far as the machine can."""
