def load(path): raise RuntimeError
def save(m, path): raise RuntimeError
