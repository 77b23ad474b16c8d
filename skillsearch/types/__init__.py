"""Values that all layers share: frozen, cheap to import, at most able to say what they hold."""
