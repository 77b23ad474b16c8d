"""An index of skills in Milvus, for more skills than one machine holds."""
