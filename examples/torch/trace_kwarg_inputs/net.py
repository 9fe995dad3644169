def attend(query, key, scale=1.0, mask=None):
    scores = query @ key.transpose(-2, -1) * scale
    return scores if mask is None else scores + mask
